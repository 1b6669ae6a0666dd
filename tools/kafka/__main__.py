"""`python -m tools.kafka`."""

import sys

from tools.kafka.cli import main

sys.exit(main())

"""What several test packages share: catalogues of messages, random instances. No tests here."""

"""Groups and their committed offsets: a coordinator without a network, which handlers ask."""

"""Sockets, TLS, SASL and pipelining: the one layer that does I/O."""

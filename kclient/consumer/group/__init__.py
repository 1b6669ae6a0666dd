"""Belonging to a group: who reads which partition, and who has read how far."""

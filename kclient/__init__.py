"""kclient: a Kafka client SDK in pure Python."""

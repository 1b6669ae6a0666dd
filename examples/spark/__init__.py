"""Pipelines in PySpark that read and write Kafka with `format("kclient")`; each module runs by itself."""

"""The checks on Spark: the only modules of the project that import pyspark."""

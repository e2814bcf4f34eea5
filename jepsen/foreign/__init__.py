"""Histories of other tools as rows of one table, and the judging of them: the plain half of
`jepsen.spark.foreign`. `jepsen/formats/` reads the files.
"""

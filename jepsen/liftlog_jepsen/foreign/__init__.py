"""Histories of other tools as rows of one table, and the judging of them: the plain half of
`liftlog_jepsen.spark.foreign`. `liftlog_jepsen/formats/` reads the files.
"""

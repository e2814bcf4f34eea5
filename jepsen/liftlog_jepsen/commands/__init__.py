"""The command line of `liftlog jepsen`: a module for each verb, and what several of them share.

`check` judges histories of logs. With a format or a model it hands over to `foreign`, which hands logs of
other tools to `kafka`; `logs` is what `check` and `kafka` share. `liftlog_jepsen.spark` is imported only
where it is used, so that `--help` and refusals need neither Spark nor Java.
"""

"""The models. One module each; `liftlog_spec.models.registry` knows them by name."""

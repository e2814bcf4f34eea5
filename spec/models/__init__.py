"""The models. One module each; `spec.models.registry` knows them by name."""

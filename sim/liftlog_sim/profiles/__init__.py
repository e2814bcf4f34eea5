"""Which worlds there are: what each seed draws."""

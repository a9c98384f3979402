"""Release specs: source, charge, product and publication of a release."""

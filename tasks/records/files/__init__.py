"""What a version's folder holds besides its record: data files, their catalogue, the software that made them."""

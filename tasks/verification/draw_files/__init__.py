"""Do the files of draws hold what the record states?"""

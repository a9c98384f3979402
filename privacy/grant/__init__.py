"""The door (law 1): a charged run counts or sums, draws its noise once, and keeps what it drew.

Where to look:
    grant                    what others call
    draws                    what generators and trainers see of it, without the ledger
    queries                  what may be drawn, a file for each kind; free values, which import no noise
    exact_types              what is let in: exact types, in copies
    sampled_noise            the only code that imports noise
    durable_draws            draw once, write, enter, replay
    remaining                whether the charge has room
"""

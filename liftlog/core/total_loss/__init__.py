"""A new quorum out of what a total loss has left (M5): what is decided of the disks that survive, before any
of them is changed. Pure: `liftlog.storage.totalloss` reads disks and changes them.
"""

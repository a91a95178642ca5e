"""Attribution: which finding is the initiator, whose fault it is, how sure that is, and where to resume."""

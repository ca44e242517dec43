"""Accept or refuse a create or an update: request x catalog x site x quota gives a plan or findings. Pure."""

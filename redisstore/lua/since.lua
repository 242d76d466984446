-- The date of the state as it is stored, if it is stored to live as long as the current limit needs.
local since = kept == code and at or 0

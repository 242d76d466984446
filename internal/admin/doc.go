// Package admin is the door of those who run Penstock: the API behind the console and the commands
// that look into a running server. It tells how a node is and what it decides, shows and changes
// rules, and looks after single callers: their counters, bans and reservations.
//
// Every route names the role that it takes; one that named none would be for nobody. A caller is
// known by a bearer token, or by a session that was begun with one.
//
// It is separate from the doors of calls: it is handed the parts of a node and takes no part in
// deciding. Which store there is, is chosen by who puts the node together.
package admin

// Package entitlement holds the numbers of limits that the rules database keeps for tenants or plans, in the memory of
// a node. A table takes about 75 bytes a row, however long its names are. It follows the database by change
// number; a lookup never waits for the database.
package entitlement

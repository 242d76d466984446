// Package entitlement holds the numbers of limits that the rules database keeps for tenants or plans, in the memory of
// a node. A table takes about 75 bytes a row, whatever its names. It follows the database by the numbers of its
// changes; a lookup never waits for the database.
package entitlement

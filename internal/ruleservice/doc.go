// Package ruleservice is the one way by which rules change: API, CLI and console write through it. A change is
// compiled, saved in the database and, where nodes read from Redis, published there.
//
// Saved is what counts. Publishing may fail without harm: [Service.Run] publishes what the database has until it is
// there, and nodes go on asking.
//
// It is a package of its own because the database does not look into documents, and package rules knows no database.
package ruleservice

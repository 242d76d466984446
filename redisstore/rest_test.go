package redisstore_test

import "github.com/penstock-io/penstock/redisstore"

func checkDates(*redisstore.Store) error        { return nil }
func checkRest(*redisstore.Store, string) error { return nil }

// Package config reads what can be configured: defaults, then a YAML file, the environment and flags.
//
//	config.go   Config: every key, its default and its documentation
//	load.go     Load: the sources one after the other, and every mistake with where it is
//	yaml.go env.go flags.go value.go   how each source and each kind of value is read
//	check.go    what values must be, by themselves and together
//	datadir.go secrets.go   where a node keeps its files, and the secrets that it makes or is given
//	options.go tls.go       the settings as options of other packages
//
// The tags of Config are the one source of its names: the file, the environment, errors and
// docs/configuration.md follow them.
package config

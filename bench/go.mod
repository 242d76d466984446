module github.com/penstock-io/penstock/bench

go 1.26

replace github.com/penstock-io/penstock => ../

require (
	github.com/guptarohit/asciigraph v0.10.0 // indirect
	github.com/penstock-io/penstock v0.0.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

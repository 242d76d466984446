module github.com/penstock-io/penstock

go 1.26

require (
	github.com/guptarohit/asciigraph v0.10.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

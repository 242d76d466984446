module github.com/penstock-io/penstock

go 1.26

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/google/go-cmp v0.7.0
	github.com/guptarohit/asciigraph v0.10.0
	github.com/redis/rueidis v1.0.79
	golang.org/x/sys v0.47.0
	pgregory.net/rapid v1.3.0
)

// Package deploy has no code: its tests run the configurations of this folder in the real proxies.
package deploy

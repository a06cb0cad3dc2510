// Package jobs is a durable queue of videos to be made, and the workers that make them.
package jobs

// Package service is the video service: the HTTP interface that clients of the hosted one speak,
// in front of a durable queue (package jobs).
//
//	POST   /v1/videos                 JSON, or multipart with the image as a file
//	GET    /v1/videos, /v1/videos/{id}
//	GET    /v1/videos/{id}/content    the video, its thumbnail or its sheet of frames
//	GET    /v1/videos/{id}/events     what becomes of it, as server-sent events
//	POST   /v1/plan                   what a request would take, without running it
//
// One table has all routes (routes.go), and one the fields of a request (fields.go). The
// handlers, the mux and /openapi.json are made of these tables, so that none can say what the
// others do not.
//
// # From a request to a job
//
// A request is read to its end (read.go), every field of it (fields.go). The release's own rules
// decide what it leaves out and refuse what it cannot do (settle.go), a plan says what it takes
// and whether the devices hold it (admission.go), and then one durable write makes the job. From
// there on nothing depends on the connection. Every violation of a request comes in one answer.
//
// No path and no URL is ever read from a request: pictures are uploads or data URLs, and outputs
// have random names.
//
// # Who is served
//
// The guard refuses requests for foreign host names, from foreign origins, and without a token
// where tokens are wanted (guard.go, tokens.go). A token has an owner, and an owner sees no one
// else's videos. Limits are on bodies, pictures, prompts, rates, streams and slow clients
// (limits.go).
package service

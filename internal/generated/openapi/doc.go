// Package openapi holds the generated OpenAPI definitions of the served types.
package openapi

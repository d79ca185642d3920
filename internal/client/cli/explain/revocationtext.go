package explain

import (
	"context"

	"github.com/certplane/certplane/internal/client/explain"
)

// Record explains the record of a certificate in the inventory.
func Record(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.Record, objectView)
}

// Revocation explains a Revocation.
func Revocation(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.RevocationObject, objectView)
}

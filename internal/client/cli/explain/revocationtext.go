package explain

import (
	"context"
	"time"

	"github.com/certplane/certplane/internal/client/explain"
)

// Record explains the record of a certificate in the inventory.
func Record(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.Record, revocationView)
}

// Revocation explains a Revocation.
func Revocation(ctx context.Context, cfg Config) error {
	return write(ctx, cfg, explain.RevocationObject, revocationView)
}

func revocationView(e explain.RevocationExplanation, _ time.Time) View {
	v := View{Verdict: e.Verdict, Next: e.Next}
	v.add("Content", rowsOf(e.Content, func(f explain.ACMEField) []string { return []string{f.Name, f.Value} }))
	v.add("Checks", CheckRows(e.Checks))
	return v
}

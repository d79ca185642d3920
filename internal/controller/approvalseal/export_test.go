package approvalseal

import "context"

// Keep does what the controller does with the Secret.
func (c Config) Keep(ctx context.Context) error { return (&reconciler{c}).keep(ctx) }

// Publish does what the controller does with the ConfigMap.
func (c PublishConfig) Publish(ctx context.Context) error { return (&publisher{c}).publish(ctx) }

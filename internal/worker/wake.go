package worker

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// CannotWake logs that the handler of an event does not know what the event
// concerns, because the cache failed. It logs nothing once ctx has ended: the
// caches of a process that stops fail.
func CannotWake(ctx context.Context, err error, message string, values ...any) {
	if ctx.Err() == nil {
		log.FromContext(ctx).WithCallDepth(1).Error(err, message, values...)
	}
}

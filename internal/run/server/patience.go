package server

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/certplane/certplane/internal/process/worker"
)

// patiently calls try until it succeeds, or fails for a reason that does not pass.
func patiently(ctx context.Context, what string, try func(context.Context) error) error {
	return worker.Patiently(ctx, what, passes, try)
}

// passes reports whether an error of a store is one that passes: the store does not
// answer, or not in time.
func passes(err error) bool {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return known.Code() == codes.Unavailable || known.Code() == codes.DeadlineExceeded
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}

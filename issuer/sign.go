package issuer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/pki"
)

// answerError reports that what Sign has returned is not usable. Another
// attempt would cost another certificate and have the same result.
type answerError struct{ error }

func (e answerError) Unwrap() error { return e.error }

// sign calls Sign and checks its answer.
func (c *Controller) sign(ctx context.Context, request *Request) (*pki.Chain, error) {
	var bundle []byte
	err := c.call(ctx, "Sign", func(ctx context.Context) (err error) {
		bundle, err = c.Sign(ctx, request)
		return err
	})
	if err != nil {
		return nil, err
	}
	chain, err := request.accept(bundle)
	if err != nil {
		return nil, answerError{fmt.Errorf("the issuer's answer cannot be used: %w", err)}
	}
	return chain, nil
}

// check calls Check.
func (c *Controller) check(ctx context.Context, issuer Issuer) error {
	return c.call(ctx, "Check", func(ctx context.Context) error { return c.Check(ctx, issuer) })
}

// errPanic is all that a requester can see of a panic, whose text can contain
// anything.
var errPanic = errors.New("the issuer's controller has a fault, which its log describes")

// call limits the time of a call, and converts a panic to an error: the panic
// is about one object, and the controller also serves others.
func (c *Controller) call(ctx context.Context, what string, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	overdue := time.AfterFunc(2*c.Timeout, func() {
		log.FromContext(ctx).Error(nil, what+" does not return, though its context has ended: until it does, one object less is worked on at a time",
			"after", 2*c.Timeout, "concurrency", c.Concurrency)
	})
	defer overdue.Stop()
	defer func() {
		if value := recover(); value != nil {
			log.FromContext(ctx).Error(errPanic, "Panic in "+what, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	if err = do(ctx); err != nil {
		_ = err.Error() // a panic in it, as for Permanent(nil), counts as a panic of the call
	}
	return err
}

package frontend

import (
	"context"
	"errors"
	"testing"
	"time"
)

// serving is a front end that signals when it begins, and returns err when it
// is stopped.
func serving(begun chan<- struct{}, err error) FrontEnd {
	return FrontEnd{Serve: func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return err
	}}
}

// The front ends still run during the last steps of the work.
func TestFrontEndsEndAfterTheWork(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan struct{})
	f := serving(begun, nil)
	serve := f.Serve
	f.Serve = func(ctx context.Context) error { defer close(ended); return serve(ctx) }
	err := Run(ctx, []FrontEnd{{Name: "a path", Path: "/a"}, f}, func(ctx context.Context) error {
		<-begun
		stop()
		<-ctx.Done()
		select {
		case <-ended:
			t.Error("the front end has ended before the work")
		default:
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	<-ended
}

// An error of a front end ends the work, and is the one that Run returns.
func TestFrontEndFails(t *testing.T) {
	failed := errors.New("address already in use")
	err := Run(t.Context(), []FrontEnd{{Serve: func(context.Context) error { return failed }}}, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, failed) {
		t.Errorf("ended with %v", err)
	}
}

// The error of the work is returned, even if the front ends end without one.
func TestWorkFails(t *testing.T) {
	begun, failed := make(chan struct{}), errors.New("the lease is lost")
	err := Run(t.Context(), []FrontEnd{serving(begun, nil)}, func(context.Context) error { <-begun; return failed })
	if !errors.Is(err, failed) {
		t.Errorf("ended with %v", err)
	}
}

// A client that does not finish cannot keep the process from ending.
func TestFrontEndThatDoesNotEnd(t *testing.T) {
	hangs := FrontEnd{StopTimeout: time.Millisecond, Serve: func(context.Context) error { select {} }}
	if err := Run(t.Context(), []FrontEnd{hangs}, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

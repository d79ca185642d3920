package acmesolver_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/acmesolver"
)

// The verb takes the arguments that the controllers give it. It says what it
// answers for, but not the answer, and ends when it is stopped.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	log := &stopper{stop: stop}
	cmd := acmesolver.New(genericiooptions.IOStreams{ErrOut: log})
	cmd.SetArgs([]string{"--listen-port=0", "--domain=a.example.com", "--token=tok", "--key=tok.thumbprint"})
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(log.text, "Answering for a.example.com on ") || strings.Contains(log.text, "thumbprint") {
		t.Errorf("it says %q", log.text)
	}
}

// stopper stops what writes to it.
type stopper struct {
	stop func()
	text string
}

// Write implements io.Writer.
func (s *stopper) Write(data []byte) (int, error) {
	s.text += string(data)
	s.stop()
	return len(data), nil
}

// Arguments with which no CA would find the answer are refused.
func TestArguments(t *testing.T) {
	good := []string{"--listen-port=8089", "--domain=a.example.com", "--token=tok", "--key=tok.thumbprint"}
	tests := []struct {
		args   []string
		want   string
		reason string
	}{
		{good[:1], "--domain is missing", "every Host would be refused"},
		{good[:2], "--token is missing", "every path would be refused"},
		{good[:3], "--key is missing", "the answer would be empty"},
		{append(good[:4:4], "--listen-port=65536"), "--listen-port: 65536 is not a port", "it cannot listen"},
		{append(good[:4:4], "more"), `unknown command "more"`, "there are only flags"},
	}
	for _, test := range tests {
		streams, _, _, _ := genericiooptions.NewTestIOStreams()
		cmd := acmesolver.New(streams)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(test.args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %s: %s", test.args, err, test.want, test.reason)
		}
	}
}

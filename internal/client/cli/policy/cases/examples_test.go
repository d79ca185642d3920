package cases_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/client/cli/policy/cases"
)

// The examples of policies do what they are for.
func TestExamples(t *testing.T) {
	var out bytes.Buffer
	err := cases.Run(context.Background(), cases.Config{Path: "testdata/examples", Now: time.Now, Stdout: &out})
	if err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
}

package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// Each quota says how much of it is used, and when another request fits.
func TestQuotaChecks(t *testing.T) {
	again := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := quotaChecks(map[certpolicy.Quota]certpolicy.QuotaUse{
		{Policy: "web", Name: "hourly", By: v1alpha1.QuotaByRequester, Key: "alice", Certificates: 3, Per: time.Hour}: {Used: 3, Again: again},
		{Policy: "web", Name: "daily", By: v1alpha1.QuotaByPolicy, Certificates: 100, Per: 24 * time.Hour}:            {Used: 42},
		{Policy: "all", Name: "node", By: v1alpha1.QuotaByNode, Key: "n1", Certificates: 1, Per: time.Minute}:         {Used: 1, Counted: true, Again: again},
	})
	want := []Check{
		{"quota all/node", Yes, `used 1 of 1 in 1m, for the Node "n1": this request is counted`},
		{"quota web/daily", Yes, "used 42 of 100 in 1d"},
		{"quota web/hourly", No, `used 3 of 3 in 1h, for the Requester "alice"; another fits at 2026-01-02T03:04:05Z`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

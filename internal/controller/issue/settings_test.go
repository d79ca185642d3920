package issue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/controller/issue"
)

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		change func(*issue.CertificateSettings)
		fault  string
		reason string
	}{
		{func(*issue.CertificateSettings) {}, "", "the defaults work"},
		{func(s *issue.CertificateSettings) { s.BackoffMin.Duration = 0 }, "backoffMin", "an issuer that fails would be asked without a pause"},
		{func(s *issue.CertificateSettings) { s.BackoffMax.Duration = time.Minute }, "backoffMax", "the first wait is longer than the longest"},
	} {
		settings := issue.DefaultCertificateSettings()
		tc.change(&settings)
		err := settings.Validate()
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
}

package certmanager_test

import (
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

func TestWindowNext(t *testing.T) {
	const layout = "Mon 2006-01-02 15:04:05"
	tests := []struct {
		reason, cron string
		lasts        time.Duration
		zone         string
		from, want   string // in UTC; empty: none within a week
	}{
		{"before it opens", "0 2 * * *", time.Hour, "", "Sun 2026-03-01 01:59:59", "Sun 2026-03-01 02:00:00"},
		{"when it opens", "0 2 * * *", time.Hour, "", "Sun 2026-03-01 02:00:00", "Sun 2026-03-01 02:00:00"},
		{"while it is open", "0 2 * * *", time.Hour, "", "Sun 2026-03-01 02:59:59", "Sun 2026-03-01 02:59:59"},
		{"when it has closed", "0 2 * * *", time.Hour, "", "Sun 2026-03-01 03:00:00", "Mon 2026-03-02 02:00:00"},
		{"open over midnight", "0 22 * * *", 4 * time.Hour, "", "Sun 2026-03-01 01:30:00", "Sun 2026-03-01 01:30:00"},
		{"open for days", "0 0 * * sat", 48 * time.Hour, "", "Sun 2026-03-01 23:59:59", "Sun 2026-03-01 23:59:59"},
		{"elsewhere", "0 2 * * *", time.Hour, "America/Denver", "Sun 2026-03-01 02:30:00", "Sun 2026-03-01 09:00:00"},
		{"not so soon", "0 2 1 * *", time.Hour, "", "Mon 2026-03-02 00:00:00", ""},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w, err := certmanager.ParseWindow(cmv1.CertificateRenewalWindows{Cron: tc.cron, WindowDuration: &metav1.Duration{Duration: tc.lasts}, Timezone: tc.zone})
			if err != nil {
				t.Fatal(err)
			}
			from, err := time.Parse(layout, tc.from)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := w.Next(from, from.AddDate(0, 0, 7))
			if ok != (tc.want != "") || ok && got.UTC().Format(layout) != tc.want {
				t.Errorf("got %v, %v, want %q", got, ok, tc.want)
			}
		})
	}
}

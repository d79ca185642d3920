package server

import "testing"

func TestQuotaWithin(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		reason                string
		quotaMiB, limit, want int
	}{
		{"an etcd that takes more", 8192, 16384, 8192},
		{"etcd's own default", 8192, 2048, 1820},
		{"the default, of an etcd that takes 8 GiB", 0, 8192, 7281},
		{"a small etcd", 8192, 64, 48},
		{"a tiny one", 8192, 16, 8},
	} {
		if got := (EtcdConfig{QuotaMiB: tt.quotaMiB}).quotaWithin(int64(tt.limit)*mib) / mib; got != int64(tt.want) {
			t.Errorf("%s: %d MiB, want %d", tt.reason, got, tt.want)
		}
	}
}

func TestValidateSpace(t *testing.T) {
	for want, cfg := range map[string]EtcdConfig{
		"": {},
		"etcd.quotaMiB: 16 is out of range: must be from 32 to 2147483647, or 0 for the default": {QuotaMiB: 16},
		"etcd.quotaMiB: -1 is out of range: must be from 32 to 2147483647, or 0 for the default": {QuotaMiB: -1},
		"etcd.maxPercentPerTenant: 101 is no percentage; 0 is no bound":                          {MaxPercentPerTenant: 101},
	} {
		if err := cfg.validateSpace(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}

package server

import "testing"

func TestValidateSpace(t *testing.T) {
	for want, cfg := range map[string]EtcdConfig{
		"": {},
		"etcd.quotaMiB: 16 is out of range: must be from 32 to 2147483647, or 0 for the default": {QuotaMiB: 16},
		"etcd.quotaMiB: -1 is out of range: must be from 32 to 2147483647, or 0 for the default": {QuotaMiB: -1},
		"etcd.maxPercentPerTenant: 101 is not a percentage; 0 means no bound":                    {MaxPercentPerTenant: 101},
	} {
		if err := cfg.validateSpace(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}

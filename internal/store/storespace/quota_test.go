package storespace

import "testing"

func TestQuotaWithin(t *testing.T) {
	for _, tt := range []struct {
		reason             string
		quota, limit, want int64
	}{
		{"an etcd that takes more", 8192, 16384, 8192},
		{"etcd's own default", 8192, 2048, 1820},
		{"the default, of an etcd that takes 8 GiB", 8192, 8192, 7281},
		{"a small etcd", 8192, 64, 48},
		{"a tiny one", 8192, 16, 8},
	} {
		got := QuotaWithin(tt.quota*mib, tt.limit*mib)
		if got/mib != tt.want {
			t.Errorf("%s: %d MiB, want %d", tt.reason, got/mib, tt.want)
		}
		if reserve := (Reading{Limit: tt.limit * mib}).reserve(got); got+reserve > tt.limit*mib {
			t.Errorf("%s: %d MiB and a reserve of %d MiB are more than the limit", tt.reason, got/mib, reserve/mib)
		}
	}
}

func TestLimitFor(t *testing.T) {
	for _, tt := range []struct {
		reason            string
		quota, size, want int64
	}{
		{"a small quota", 32, 0, 80},
		{"a large quota", 8192, 100, 17408},
		{"a file of a time when the quota was larger", 32, 100, 116},
	} {
		if got := LimitFor(tt.quota*mib, tt.size*mib) / mib; got != tt.want {
			t.Errorf("%s: %d MiB, want %d", tt.reason, got, tt.want)
		}
	}
}

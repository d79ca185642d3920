package pki_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestCheckWeakKey(t *testing.T) {
	good := newKey(t, pki.RSA2048).Public().(*rsa.PublicKey)
	p, q := prime(t, 1024), prime(t, 1024)
	for _, tc := range []struct {
		reason string
		key    crypto.PublicKey
		want   string
	}{
		{"a good key", good, ""},
		{"a key of another kind", newKey(t, pki.ECDSAP256).Public(), ""},
		{"no modulus", &rsa.PublicKey{E: 65537}, "even modulus"},
		{"zero", &rsa.PublicKey{N: new(big.Int), E: 65537}, "even modulus"},
		{"an even modulus", modulus(big.NewInt(2), p), "even modulus"},
		{"divisible by 3", modulus(big.NewInt(3), p), "divisible by 3"},
		{"divisible by 997", modulus(big.NewInt(997), p), "divisible by 997"},
		{"a factor that is not small", modulus(prime(t, 64), p), ""},
		{"a square", modulus(p, p), "close to each other"},
		{"the next prime", modulus(p, nextPrime(p)), "close to each other"},
		{"primes that differ in the lower half", modulus(p, nextPrime(new(big.Int).Add(p, new(big.Int).Lsh(big.NewInt(9), 512)))), "close to each other"},
		{"primes that differ in the upper bits", modulus(p, nextPrime(new(big.Int).Add(p, new(big.Int).Lsh(big.NewInt(1), 600)))), ""},
		{"primes of the faulty library", modulus(rocaNumber(t), rocaNumber(t)), "ROCA"},
		{"one prime of the faulty library", modulus(rocaNumber(t), q), ""},
	} {
		err := pki.CheckWeakKey(tc.key)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.reason, err, tc.want)
		}
	}
}

func modulus(p, q *big.Int) *rsa.PublicKey {
	return &rsa.PublicKey{N: new(big.Int).Mul(p, q), E: 65537}
}

func prime(t testing.TB, bits int) *big.Int {
	t.Helper()
	p, err := rand.Prime(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func nextPrime(n *big.Int) *big.Int {
	next := new(big.Int).Add(n, big.NewInt(2))
	next.SetBit(next, 0, 1)
	for !next.ProbablyPrime(0) {
		next.Add(next, big.NewInt(2))
	}
	return next
}

// rocaNumber returns a prime as the library of ROCA made them: k * M + (65537^a
// mod M), where M is the product of the first primes.
func rocaNumber(t *testing.T) *big.Int {
	t.Helper()
	product := big.NewInt(2)
	for n := int64(3); n < 350; n += 2 {
		if p := big.NewInt(n); p.ProbablyPrime(0) {
			product.Mul(product, p)
		}
	}
	power := new(big.Int).Exp(big.NewInt(65537), prime(t, 62), product)
	for k := prime(t, 1024-product.BitLen()); ; k.Add(k, big.NewInt(1)) {
		p := new(big.Int).Mul(k, product)
		if p.Add(p, power).ProbablyPrime(0) {
			return p
		}
	}
}

func BenchmarkCheckWeakKey(b *testing.B) {
	for _, bits := range []int{2048, 4096} {
		key := modulus(prime(b, bits/2), prime(b, bits/2))
		b.Run(fmt.Sprintf("RSA%d", bits), func(b *testing.B) {
			for b.Loop() {
				if err := pki.CheckWeakKey(key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

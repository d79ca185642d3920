package pki

import (
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"math/big"
)

// CheckWeakKey returns why others can compute the private key of an RSA key in hours or
// less: its modulus has a small factor, or two factors that are close to each other, or
// comes from the faulty library of ROCA (CVE-2017-15361). CheckPublicKey checks the size and
// the exponent.
func CheckWeakKey(key crypto.PublicKey) error {
	public, isRSA := key.(*rsa.PublicKey)
	if !isRSA {
		return nil
	}
	switch n := public.N; {
	case n == nil || n.Sign() <= 0 || n.Bit(0) == 0:
		return errors.New("RSA key has an even modulus")
	case smallFactor(n) != 0:
		return fmt.Errorf("RSA key is broken: its modulus is divisible by %d", smallFactor(n))
	case hasCloseFactors(n):
		return errors.New("RSA key is weak: its two primes are close to each other, so that it can be factored (CVE-2022-26320)")
	case hasROCAFingerprint(n):
		return errors.New("RSA key is weak: it was made by a faulty library and can be factored (ROCA, CVE-2017-15361)")
	}
	return nil
}

// oddPrimes returns the odd primes below a limit.
func oddPrimes(limit int64) []int64 {
	var primes []int64
candidates:
	for n := int64(3); n < limit; n += 2 {
		for _, p := range primes {
			if n%p == 0 {
				continue candidates
			}
		}
		primes = append(primes, n)
	}
	return primes
}

// factorPrimes are tried as factors. Factors up to some millions could be found by
// anybody, but only broken programs make such keys, and those have tiny ones.
var factorPrimes = oddPrimes(1000)

// smallFactor returns a factor of n, 0 if it has no small one.
func smallFactor(n *big.Int) int64 {
	var prime, quotient, rest big.Int
	for _, p := range factorPrimes {
		if quotient.QuoRem(n, prime.SetInt64(p), &rest); rest.Sign() == 0 {
			return p
		}
	}
	return 0
}

// fermatRounds is how many steps of Fermat's method are made. Keys of the programs
// that chose the next prime for the second one need only one.
const fermatRounds = 100

// hasCloseFactors looks for a and b with n = a² - b², which are then the mean and
// half of the difference of two factors.
func hasCloseFactors(n *big.Int) bool {
	a := new(big.Int).Sqrt(n)
	square := new(big.Int).Mul(a, a)
	if square.Cmp(n) == 0 {
		return true
	}
	// b² = a² - n for the smallest a that makes it positive; the next a adds 2a + 1.
	step := new(big.Int).Lsh(a, 1)
	step.Add(step, big.NewInt(1))
	rest := square.Add(square, step)
	rest.Sub(rest, n)
	two := big.NewInt(2)
	for range fermatRounds {
		if isSquare(rest) {
			return true
		}
		step.Add(step, two)
		rest.Add(rest, step)
	}
	return false
}

// isSquare reports whether n, which is positive, is the square of an integer. A square is
// also a square modulo any number, which excludes nearly all others.
func isSquare(n *big.Int) bool {
	if low := n.Bit(0) | n.Bit(1)<<1 | n.Bit(2)<<2 | n.Bit(3)<<3; low != 0 && low != 1 && low != 4 && low != 9 {
		return false
	}
	var rest big.Int
	remainder := rest.Rem(n, squareModulus).Int64()
	for _, m := range []int64{63, 65, 11, 17, 19, 23, 31} {
		if !isSquareModulo(remainder%m, m) {
			return false
		}
	}
	root := rest.Sqrt(n)
	return new(big.Int).Mul(root, root).Cmp(n) == 0
}

var squareModulus = big.NewInt(63 * 65 * 11 * 17 * 19 * 23 * 31)

func isSquareModulo(n, m int64) bool {
	for x := range m/2 + 1 {
		if x*x%m == n {
			return true
		}
	}
	return false
}

// rocaPrimes are those for which the primes of the faulty library are powers of
// 65537 (Nemec et al., The Return of Coppersmith's Attack, 2017, section 2), for
// keys of all sizes.
var rocaPrimes = oddPrimes(168)

// hasROCAFingerprint reports whether n is a power of 65537 modulo each of
// rocaPrimes. Other keys are so with a probability below 2^-27.
func hasROCAFingerprint(n *big.Int) bool {
	var prime, quotient, rest big.Int
	for _, p := range rocaPrimes {
		if quotient.QuoRem(n, prime.SetInt64(p), &rest); !isPowerOf65537(rest.Int64(), p) {
			return false
		}
	}
	return true
}

func isPowerOf65537(n, p int64) bool {
	power := int64(1)
	for range p {
		if power == n {
			return true
		}
		power = power * 65537 % p
	}
	return false
}

package bignum;

# Loads the machine's own bignum and corrects bpi() and bexp() of its versions from 0.60 to 0.65 (perl 5.36): they
# switch "upgrading" off while they compute, but not "downgrading", so that intermediate values which happen to be
# integers become Math::BigInt objects. Above 1000 digits bpi() computes with them and dies in Math::BigInt::Calc.

use strict;
use warnings;

BEGIN {
    my $own = __FILE__;
    my ($real) = grep { $_ ne $own && -f } map { "$_/bignum.pm" } grep { !ref } @INC;
    die "Can't locate bignum.pm: perl on this machine has no such module\n" unless defined $real;
    require $real;
    $INC{'bignum.pm'} = $real;
}

{
    no warnings 'redefine';

    sub in_floats {
        my ($compute) = @_;
        my $class = 'Math::BigFloat';
        my ($up, $down) = ($class->upgrade, $class->downgrade);
        $class->upgrade(undef);
        $class->downgrade(undef);
        my $result = eval { $compute->() };
        my $error = $@;
        $class->upgrade($up);
        $class->downgrade($down);
        die $error unless defined $result;
        return $result;
    }

    *bpi  = sub ($) { my @digits = @_; in_floats(sub { Math::BigFloat->bpi(@digits) }) };
    *bexp = sub ($$) { my ($x, @digits) = @_; in_floats(sub { Math::BigFloat->new($x)->bexp(@digits) }) };
}

1;

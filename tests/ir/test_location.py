"""Where nodes come from."""

from jitgrad.ir import location


def test_this_file_is_the_users():
    here = location.user_location()
    assert str(here).endswith(f"test_location.py:{here.line} in test_this_file_is_the_users")


def test_the_package_is_not_the_users():
    assert not __file__.startswith(location._ROOTS)
    assert location.__file__.startswith(location._ROOTS)
